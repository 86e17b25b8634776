//! A whole training run in this process, over stores.

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
use trainer::training::RunOutcome;

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

/// A run of so many steps on random ids.
fn plan(home: &Path, steps: u64) -> Plan {
    plan_over(home, &Store::folder(home).expect("there"), steps)
}

/// The same over data that are kept in a store.
fn plan_over(home: &Path, data: &Store, steps: u64) -> Plan {
    if data.stat("manifest.json").expect("asked").is_none() {
        Synthetic::default().write(data).expect("written");
    }
    Store::folder(home).expect("there").put("run.toml", CONFIG.as_bytes()).expect("written");
    let set = vec![format!("data.folder=\"{}\"", home.display()), format!("train.steps={steps}")];
    let args = ConfigArgs { config: home.join("run.toml"), set };
    Plan::over(&args, |_| Ok(data.clone()), Purpose::Run).unwrap_or_else(|error| panic!("{error:#}"))
}

fn context(run: RunFolder, phases: Phases) -> RunContext {
    RunContext { run: Some(run), replay: None, faults: None, phases, profile: None, observers: Vec::new() }
}

fn run_over(store: &Store, plan: &Plan) -> RunOutcome {
    let phases = Phases { control: Arc::new(Control::start().expect("signals")), slow: None };
    let run = RunFolder::hold(store).expect("free");
    train(plan, &run.store().clone(), context(run, phases)).unwrap_or_else(|error| panic!("{error:#}"))
}

/// Every object of a run but its lock; of its log, what depends neither on clocks nor on the place.
fn objects(store: &Store) -> BTreeMap<String, Vec<u8>> {
    let names = store.list("").expect("listed").into_iter().map(|entry| entry.name).filter(|name| name != "lock");
    let content = |name: &str| {
        let bytes = store.read(name).expect("there");
        if name.starts_with("log/") { timeless(&bytes) } else { bytes }
    };
    names.map(|name| (name.clone(), content(&name))).collect()
}

fn timeless(log: &[u8]) -> Vec<u8> {
    let mut timeless = Vec::new();
    for line in log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let mut event: Value = serde_json::from_slice(line).expect("JSON");
        let object = event.as_object_mut().expect("an object");
        // When a checkpoint is known to be kept depends on the store.
        if object["kind"] != "checkpoint" {
            let clocks =
                ["time", "elapsed_s", "tokens_per_s", "data_wait", "checkpoint_stall", "eta_s", "seconds", "place"];
            let machine = ["steps_per_s", "phases", "host_bytes"];
            object.retain(|key, _| ![&clocks[..], &machine].concat().contains(&key.as_str()));
            timeless.extend(format!("{event}\n").into_bytes());
        }
    }
    timeless
}

#[test]
fn a_run_over_a_failing_store_ends_as_over_a_folder() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let runs = tempfile::tempdir().expect("a temporary folder");
    let folder = Store::folder(runs.path()).expect("made");
    let memory = MemoryBackend::new(FaultConfig { seed: 5, failures: 0.25, lost: 0.25, ..FaultConfig::calm() });
    let stormy = Store::of_memory(&memory);
    let data = MemoryBackend::new(FaultConfig { seed: 6, failures: 0.25, lost: 0.25, ..FaultConfig::calm() });
    for steps in [5, 8] {
        // The second continues from the first.
        assert_eq!(run_over(&folder, &plan(home.path(), steps)), RunOutcome::Finished(Step(steps)));
        let plan = plan_over(home.path(), &Store::of_memory(&data), steps);
        assert_eq!(run_over(&stormy, &plan), RunOutcome::Finished(Step(steps)));
    }
    let (tally, data) = (memory.tally(), data.tally());
    assert!(tally.failed > 10 && tally.lost > 10, "{tally:?}");
    assert!(data.failed > 10 && data.lost > 5, "{data:?}");
    let (calm, stormy) = (objects(&folder), objects(&stormy));
    assert_eq!(calm.keys().collect::<Vec<_>>(), stormy.keys().collect::<Vec<_>>());
    for name in ["config.toml", "plan.json", "log/00000000.jsonl", "checkpoints/step-00000008/state.json"] {
        assert!(calm.contains_key(name), "{name}");
    }
    for (name, bytes) in &calm {
        assert!(stormy[name] == *bytes, "{name} differs");
    }
}

#[test]
fn a_refused_run_leaves_everything_as_it_was() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = Store::memory(FaultConfig::calm());
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
    let other = Plan::over(&args, load::find, Purpose::Run);
    let other = other.unwrap_or_else(|error| panic!("{error:#}"));
    let phases = Phases { control: Arc::new(Control::start().expect("signals")), slow: None };
    let run = RunFolder::hold(&store).expect("free");
    let error = train(&other, &run.store().clone(), context(run, phases)).expect_err("another seed");
    assert!(format!("{error:#}").contains("`seed`"), "{error:#}");
    assert_eq!(format!("{:?}", cloze::exit::code(&error)), format!("{:?}", ExitCode::from(2)));
    assert_eq!(objects(&store), before);
}

/// As the trainer hands it on.
#[test]
fn a_view_that_breaks_its_promise_fails_the_run() {
    let (view, drifts) = ("masked".to_owned(), "a rate".to_owned());
    let error = pipeline::Error::Drift { view, drifts, batch: schemas::BatchIndex(0), batches: 1 };
    let error = anyhow::Error::from(trainer_plan::Error::Foreign(error.into()));
    assert_eq!(format!("{:?}", cloze::exit::code(&error)), format!("{:?}", ExitCode::FAILURE));
}
