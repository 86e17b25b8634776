//! Thread of the trainer, with its data source and its host.

use std::sync::{Arc, Mutex};

use cloze::plan::{Plan, describe};
use cloze::run::bad_rows::RunBadRows;
use cloze::run::control::Control;
use cloze::run::control::profile_file::ProfileRequest;
use cloze::run::data::copy;
use cloze::run::fault_injection::FaultInjector;
use cloze::run::folder::RunFolder;
use pipeline::exposure::Exposure;
use pipeline::load::{Contention, LatencyInjection};
use schemas::RankShard;
use store::Store;
use telemetry::dispatcher::Dispatcher;
use telemetry::terminal::{Printer, note};
use telemetry::{Clock, Fanout, Observer};
use trainer::training::checkpoint::{CheckpointPolicy, Export};
use trainer::training::{Data, ProcessGroup, RunOutcome};
use trainer_plan::checkpoint;
use trainer_plan::config::SpikeAction;
use trainer_plan::networks::MAIN;

use super::data_source::{DataSource, RowRecords};
use super::monitoring;
use super::profiler::Profiler;
use super::run_host::RunHost;
use super::run_phase::Phases;
use super::task_scorer;
use crate::export;
use crate::step_profile::Shape;

/// Context of a training, in addition to its plan and its store.
pub(super) struct RunContext {
    /// Run folder. `None` if nothing is saved.
    pub(super) run: Option<RunFolder>,
    pub(super) ranks: Arc<dyn ProcessGroup>,
    /// Number of micro-batches to repeat.
    pub(super) replay: Option<u64>,
    pub(super) faults: Option<Arc<FaultInjector>>,
    pub(super) phases: Phases,
    /// Steps to profile.
    pub(super) profile: Option<ProfileRequest>,
    /// Observers, which receive events on a separate thread.
    pub(super) observers: Vec<Box<dyn Observer>>,
}

/// Trains from the newest checkpoint in `store`, or from the beginning. An error of this rank reaches the others with its text.
pub(super) fn train(plan: &Plan, store: &Store, context: RunContext) -> anyhow::Result<RunOutcome> {
    let ranks = Arc::clone(&context.ranks);
    train_alone(plan, store, context).inspect_err(|error| ranks.abort(&format!("{error:#}")))
}

fn train_alone(plan: &Plan, store: &Store, context: RunContext) -> anyhow::Result<RunOutcome> {
    let RunContext { run, ranks, replay, faults, phases, profile, observers } = context;
    // Rank 0 records bad rows; the others begin with those that are known.
    let is_first = ranks.share().is_first();
    let identity = plan.train().identity.hash();
    let left_out = Arc::new(if is_first {
        RunBadRows::default()
    } else {
        RunBadRows::open_as(store, identity, checkpoint::steps(store)?.is_empty())?
    });
    if !is_first {
        plan.data().versions().iter().for_each(|versions| versions.follow(store.clone()));
    }
    let exposure = Arc::<Mutex<Exposure>>::default();
    let records = RowRecords { bad_rows: Arc::clone(&left_out) as _, exposure: Arc::clone(&exposure) };
    let dispatcher = Dispatcher::start(observers)?;
    let share = ranks.share();
    let mut data = DataSource::new(plan, replay, records, faults.as_ref(), phases.clone(), share);
    let mut observers: Vec<Box<dyn Observer>> = vec![Box::new(dispatcher)];
    if is_first {
        observers.insert(0, Box::new(Printer::start(run.is_some(), monitoring::progress(plan, &phases))?));
    }
    let mut host = RunHost {
        observers: Fanout(observers),
        run,
        versions: plan.data().versions(),
        bad_rows: left_out,
        exposure,
        identity: identity.to_owned(),
        faults,
        documents: documents(plan),
        checkpoint_policy: Arc::new(checkpoint_policy(plan)?),
        phases,
        steps: plan.train().steps_expected(),
        pending: None,
        profiler: Profiler::new(Shape::new(plan, share), profile),
        task: task_scorer::validated(plan)?,
    };
    let training = plan.train().clone();
    let store = store.clone();
    let thread = runtime::spawn("trainer", move || {
        let outcome = trainer::training::run(&training, ranks, &store, &Clock::system(), &mut data, &mut host);
        ThreadResult { outcome, closed: host.close() }
    })?;
    let result = thread.join().inspect_err(|_| {
        note("the trainer panicked: the steps since the newest checkpoint are not saved");
    })?;
    // The error of the training comes first, because it may be the cause of the log's error.
    let outcome = result.outcome?;
    result.closed?;
    Ok(outcome)
}

/// Returns the files that a run is started with. A run trains without the copy of its data.
fn documents(plan: &Plan) -> Vec<(String, Vec<u8>)> {
    let copied = copy::files(plan.data()).inspect_err(|error| {
        tracing::warn!(%error, "run: no copy of the tokenizer, the run cannot be exported without its prepared folder");
    });
    let own = [("config.toml", plan.resolved_toml()), ("plan.json", describe::json(plan))];
    let own = own.map(|(name, text)| (name.to_owned(), text.into_bytes()));
    copied.unwrap_or_default().into_iter().chain(own).collect()
}

/// Results of the trainer's thread.
struct ThreadResult {
    outcome: Result<RunOutcome, trainer_plan::Error>,
    /// Whether the rest of the log was written.
    closed: std::io::Result<()>,
}

/// Returns the checkpoint policy of a plan.
fn checkpoint_policy(plan: &Plan) -> anyhow::Result<CheckpointPolicy> {
    let rules = plan.train().checkpoints.clone();
    let model = rules.export.map(|family| export::Model::new(plan, MAIN, Some(family))).transpose()?;
    let export = model.map(|model| -> Export { Box::new(move |weights, folder| model.put(weights, folder)) });
    let goes_back = plan.train().guard.action == SpikeAction::Skip;
    Ok(CheckpointPolicy { rules, export, goes_back })
}

/// Returns the batches of a rank of a training that records nothing about its rows, with optional injected latency.
pub(crate) fn data_without_records(
    plan: &Plan,
    control: &Arc<Control>,
    latency_injection: Option<LatencyInjection>,
    contention: Contention,
    share: RankShard,
) -> impl Data + use<> {
    let records = RowRecords { bad_rows: Arc::<RunBadRows>::default() as _, exposure: Arc::default() };
    let phases = Phases { control: Arc::clone(control), slow: None };
    let mut data = DataSource::new(plan, None, records, None, phases, share);
    (data.latency_injection, data.contention) = (latency_injection, contention);
    data
}
