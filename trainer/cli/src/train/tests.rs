//! Tests of whole training runs in this process, over different stores.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use cloze::cli::ConfigArgs;
use cloze::plan::Plan;
use cloze::run::control::Control;
use cloze::run::data::Purpose;
use cloze::run::folder::RunFolder;
use pipeline::load;
use pipeline::shard::synthetic::Synthetic;
use schemas::Step;
use serde_json::Value;
use store::{FaultConfig, MemoryBackend, Store};
use trainer::training::{RunOutcome, SingleProcess};

use super::run_phase::Phases;
use super::trainer_thread::{RunContext, train};

const CONFIG: &str = r#"
seed = 7
[encoder]
layers = 1
hidden = 16
heads = 2
feed_forward = 32
max_positions = 64
[views.masked]
kind = "mask"
[objectives.mlm]
kind = "masked_lm"
[loss]
mlm = 1.0
[train]
global_batch_size = 8
micro_batch_size = 4
device = "cpu"
threads = 1
[schedule]
kind = "constant"
[validation]
every_steps = 3
rows = 8
[checkpoints]
every_steps = 2
keep = 2
[report]
every_steps = 1
[run]
folder = "run"
"#;

/// Plans a run of `steps` steps on random ids.
fn plan(home: &Path, steps: u64) -> Plan {
    plan_over(home, &Store::folder(home).expect("there"), steps)
}

/// Plans a run on data in a store.
fn plan_over(home: &Path, data: &Store, steps: u64) -> Plan {
    if data.head("manifest.json").expect("asked").is_none() {
        Synthetic::default().write(data).expect("written");
    }
    Store::folder(home).expect("there").put("run.toml", CONFIG.as_bytes()).expect("written");
    let set = vec![format!("data.folder=\"{}\"", home.display()), format!("train.steps={steps}")];
    let args = ConfigArgs { config: home.join("run.toml"), set };
    Plan::new(&args, |_| Ok(data.clone()), Purpose::Run).unwrap_or_else(|error| panic!("{error:#}"))
}

fn context(run: RunFolder, phases: Phases) -> RunContext {
    RunContext {
        run: Some(run),
        ranks: Arc::new(SingleProcess),
        replay: None,
        faults: None,
        phases,
        profile: None,
        observers: Vec::new(),
    }
}

fn run_over(store: &Store, plan: &Plan) -> RunOutcome {
    let phases = Phases { control: Arc::new(Control::start().expect("signals")), slow: None };
    let run = RunFolder::acquire(store).expect("free");
    train(plan, &run.store().clone(), context(run, phases)).unwrap_or_else(|error| panic!("{error:#}"))
}

/// Returns every object of a run except its lock. Fields of the log that depend on time or place are removed.
fn objects(store: &Store) -> BTreeMap<String, Vec<u8>> {
    let names = store.list("").expect("listed").into_iter().map(|entry| entry.name).filter(|name| name != "lock");
    let content = |name: &str| {
        let bytes = store.get(name).expect("there");
        if name.starts_with("log/") { without_times(&bytes) } else { bytes }
    };
    names.map(|name| (name.clone(), content(&name))).collect()
}

fn without_times(log: &[u8]) -> Vec<u8> {
    let mut without_times = Vec::new();
    for line in log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let mut event: Value = serde_json::from_slice(line).expect("JSON");
        let object = event.as_object_mut().expect("an object");
        // The time of a checkpoint event depends on the store.
        if object["kind"] != "checkpoint" {
            let clocks =
                ["time", "elapsed_s", "tokens_per_s", "data_wait", "checkpoint_stall", "eta_s", "seconds", "place"];
            let machine = ["steps_per_s", "phases", "host_bytes"];
            object.retain(|key, _| ![&clocks[..], &machine].concat().contains(&key.as_str()));
            without_times.extend(format!("{event}\n").into_bytes());
        }
    }
    without_times
}

#[test]
fn a_run_over_a_faulty_store_equals_one_over_a_folder() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let runs = tempfile::tempdir().expect("a temporary folder");
    let folder = Store::folder(runs.path()).expect("made");
    let memory = MemoryBackend::new(FaultConfig { seed: 5, failures: 0.25, lost: 0.25, ..FaultConfig::none() });
    let faulty = Store::from_memory(&memory);
    let data = MemoryBackend::new(FaultConfig { seed: 6, failures: 0.25, lost: 0.25, ..FaultConfig::none() });
    for steps in [5, 8] {
        // The second continues from the first.
        assert_eq!(run_over(&folder, &plan(home.path(), steps)), RunOutcome::Finished(Step(steps)));
        let plan = plan_over(home.path(), &Store::from_memory(&data), steps);
        assert_eq!(run_over(&faulty, &plan), RunOutcome::Finished(Step(steps)));
    }
    let tally = memory.tally();
    let data = data.tally();
    assert!(tally.failed > 5 && tally.lost > 5, "{tally:?}");
    assert!(data.failed > 5 && data.lost > 5, "{data:?}");
    let plain = objects(&folder);
    let faulty = objects(&faulty);
    assert_eq!(plain.keys().collect::<Vec<_>>(), faulty.keys().collect::<Vec<_>>());
    for name in ["config.toml", "plan.json", "log/00000000.jsonl", "checkpoints/step-00000008/state.json"] {
        assert!(plain.contains_key(name), "{name}");
    }
    for (name, bytes) in &plain {
        assert!(faulty[name] == *bytes, "{name} differs");
    }
}

#[test]
fn a_refused_run_leaves_everything_as_it_was() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = Store::in_memory(FaultConfig::none());
    run_over(&store, &plan(home.path(), 3));
    let before = objects(&store);
    let args = ConfigArgs {
        config: home.path().join("run.toml"),
        set: vec![
            format!("data.folder=\"{}\"", home.path().display()),
            "seed=8".to_owned(),
            "train.steps=6".to_owned(),
        ],
    };
    let other = Plan::new(&args, load::find, Purpose::Run);
    let other = other.unwrap_or_else(|error| panic!("{error:#}"));
    let phases = Phases { control: Arc::new(Control::start().expect("signals")), slow: None };
    let run = RunFolder::acquire(&store).expect("free");
    let error = train(&other, &run.store().clone(), context(run, phases)).expect_err("another seed");
    assert!(format!("{error:#}").contains("seed  7 → 8"), "{error:#}");
    assert_eq!(format!("{:?}", cloze::exit::code(&error)), format!("{:?}", ExitCode::from(2)));
    assert_eq!(objects(&store), before);
}

/// The error has the type that the trainer returns.
#[test]
fn a_view_that_fails_its_audit_fails_the_run() {
    let view = "masked".to_owned();
    let drifts = "a rate".to_owned();
    let error = pipeline::Error::Drift { view, drifts, batch: schemas::BatchIndex(0), batches: 1 };
    let error = anyhow::Error::from(trainer_plan::Error::Foreign(error.into()));
    assert_eq!(format!("{:?}", cloze::exit::code(&error)), format!("{:?}", ExitCode::FAILURE));
}
