//! The trainer, on its own thread: between the pipeline that makes batches and the host that keeps results.

use std::sync::{Arc, Mutex};

use cloze::plan::{Plan, describe};
use cloze::run::bad_rows::RunLeftOut;
use cloze::run::control::Control;
use cloze::run::control::profile_file::Wish;
use cloze::run::fault_injection::FaultInjector;
use cloze::run::folder::RunFolder;
use pipeline::exposure::Exposure;
use pipeline::load::{Contention, LatencyInjection};
use store::Store;
use telemetry::dispatcher::Dispatcher;
use telemetry::terminal::{Printer, note};
use telemetry::{Clock, Many, Observer};
use trainer::training::checkpoint::{CheckpointPolicy, Export};
use trainer::training::{Data, RunOutcome, SingleProcess};
use trainer_plan::config::SpikeAction;

use super::data_source::{DataSource, RowRecords};
use super::monitoring;
use super::profiler::Profiler;
use super::run_host::RunHost;
use super::run_phase::Phases;
use crate::export;
use crate::step_profile::Shape;

/// What a training has in addition to its plan and its store.
pub(super) struct RunContext {
    /// None where nothing is kept.
    pub(super) run: Option<RunFolder>,
    /// Number of micro-batches to repeat.
    pub(super) replay: Option<u64>,
    pub(super) faults: Option<Arc<FaultInjector>>,
    pub(super) phases: Phases,
    /// Steps to profile.
    pub(super) profile: Option<Wish>,
    /// Receive events on a thread of their own.
    pub(super) observers: Vec<Box<dyn Observer>>,
}

/// Trains from the newest checkpoint in `store`, or from the beginning.
pub(super) fn train(plan: &Plan, store: &Store, context: RunContext) -> anyhow::Result<RunOutcome> {
    let RunContext { run, replay, faults, phases, profile, observers } = context;
    let left_out = Arc::<RunLeftOut>::default();
    let ledger = Arc::<Mutex<Exposure>>::default();
    let records = RowRecords { bad_rows: Arc::clone(&left_out) as _, ledger: Arc::clone(&ledger) };
    let dispatcher = Dispatcher::start(observers)?;
    let mut data = DataSource::new(plan, replay, records, faults.as_ref(), phases.clone());
    let printer = Printer::start(run.is_some(), monitoring::progress(plan, &phases))?;
    let mut host = RunHost {
        observers: Many(vec![Box::new(printer), Box::new(dispatcher)]),
        run,
        versions: plan.data().versions(),
        left_out,
        ledger,
        identity: plan.train().identity.hash().to_owned(),
        faults,
        documents: vec![("config.toml", plan.resolved_toml()), ("plan.json", describe::json(plan))],
        keeping: Arc::new(keeping(plan)?),
        phases,
        steps: plan.train().steps_expected(),
        pending: None,
        profiler: Profiler::new(Shape::of(plan), profile),
    };
    let (training, store) = (plan.train().clone(), store.clone());
    let thread = runtime::spawn("trainer", move || {
        let outcome =
            trainer::training::run(&training, Box::new(SingleProcess), &store, &Clock::system(), &mut data, &mut host);
        Ended { outcome, closed: host.close() }
    })?;
    let ended = thread.join().inspect_err(|_| {
        note("the trainer broke off: what was learned since the newest checkpoint is not saved");
    })?;
    // The error of the training comes first: it may be the reason for that of the log.
    let outcome = ended.outcome?;
    ended.closed?;
    Ok(outcome)
}

/// Results of the trainer's thread.
struct Ended {
    outcome: Result<RunOutcome, trainer_plan::Error>,
    /// Whether the rest of the log was written.
    closed: std::io::Result<()>,
}

/// How the checkpoints of a plan are written.
fn keeping(plan: &Plan) -> anyhow::Result<CheckpointPolicy> {
    let rules = plan.train().checkpoints.clone();
    let model = rules.export.map(|family| export::Model::of(plan, family)).transpose()?;
    let export =
        model.map(|model| -> Export { Box::new(move |weights, folder| model.put(weights, folder).map(|_| ())) });
    let goes_back = plan.train().guard.action == SpikeAction::Skip;
    Ok(CheckpointPolicy { rules, export, goes_back })
}

/// The batches of a training that records nothing about its rows, with optional injected latency.
pub(crate) fn data_without_records(
    plan: &Plan,
    control: &Arc<Control>,
    hindrance: Option<LatencyInjection>,
    contention: Contention,
) -> impl Data + use<> {
    let records = RowRecords { bad_rows: Arc::<RunLeftOut>::default() as _, ledger: Arc::default() };
    let phases = Phases { control: Arc::clone(control), slow: None };
    let mut data = DataSource::new(plan, None, records, None, phases);
    (data.hindrance, data.contention) = (hindrance, contention);
    data
}
