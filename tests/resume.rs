//! A run that was stopped, by whatever means, ends as if it had not been.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

use crate::support::{Home, files, root, unlocked};

/// Dropout 0.1, two terms, two micro-batches a step, a validation at 20, 40 and 60, checkpoints every 10 steps, and
/// few enough rows that several epochs go by (`tiny.toml` and these overrides).
fn train<'a>(run: &'a str, lanes: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args =
        vec!["train", "--set", run, "--set", lanes, "--set", "report.every_steps=1", "--set", "train.threads=1"];
    args.extend_from_slice(more);
    args
}

/// What no two runs agree on: clocks, and what there was of the machine.
pub(crate) const CLOCKS: [&str; 12] = [
    "time",
    "elapsed_s",
    "tokens_per_s",
    "steps_per_s",
    "wait",
    "stall",
    "mfu",
    "eta_s",
    "phases",
    "memory",
    "host_bytes",
    "seconds",
];

/// What was learnt, and where the run stood: the log without clocks, and without what a process says of itself.
fn values(home: &Home, run: &str) -> Vec<Value> {
    let mut entries = home.log(run);
    entries.retain(|entry| ["start", "report", "validation", "left_out"].iter().any(|kind| entry["kind"] == *kind));
    for entry in &mut entries {
        let object = entry.as_object_mut().expect("a log line is an object");
        object.retain(|key, _| !CLOCKS.contains(&key.as_str()));
    }
    entries
}

/// The tensors of the last checkpoint: weights and optimizer state.
fn tensors(home: &Home, run: &str) -> BTreeMap<String, Vec<u8>> {
    let checkpoints = home.join(run).join("checkpoints");
    let newest = std::fs::read_to_string(checkpoints.join("latest")).expect("a checkpoint");
    let mut found = files(&checkpoints.join(newest.trim()));
    found.retain(|name, _| name.ends_with(".safetensors"));
    assert_eq!(found.len(), 2, "weights and optimizer: {:?}", found.keys());
    found
}

#[track_caller]
pub(crate) fn assert_equal_runs(home: &Home, expected: &str, run: &str) {
    let (values, expected_values) = (values(home, run), values(home, expected));
    for (value, expected) in values.iter().zip(&expected_values) {
        assert_eq!(value, expected, "log values of {run}");
    }
    assert_eq!(values.len(), expected_values.len(), "lines of the log of {run}");
    assert!(tensors(home, run) == tensors(home, expected), "weights and optimizer state");
}

#[test]
fn resume_is_bit_exact_after_sigkill_for_any_number_of_lanes() {
    let home = Home::prepared(120);
    home.run_ok(&train("run.folder=whole", "data.lanes=1", &[]));
    for (run, lanes) in [("one", "data.lanes=1"), ("four", "data.lanes=4")] {
        let folder = format!("run.folder={run}");
        let mut running = home.watch(&train(&folder, lanes, &[]));
        running.reach(37);
        assert!(running.kill() < 60, "the kill came too late to prove anything");
        home.run_ok(&train(&folder, lanes, &[]));
        assert_equal_runs(&home, "whole", run);
    }
}

/// The same, for the run of `fixtures/every-objective.toml`: dropout, a generator that samples, a teacher, pairs and crops.
#[test]
fn resume_is_bit_exact_for_every_objective() {
    let home = with_every_objective();
    home.run_ok(&every_objective(&["train"], &["--set", "run.folder=whole", "--set", "data.lanes=1"]));
    let again = every_objective(&["train"], &["--set", "run.folder=killed", "--set", "data.lanes=3"]);
    let mut running = home.watch(&again);
    running.reach(37);
    assert!(running.kill() < 60, "the kill came too late to prove anything");
    home.run_ok(&again);
    assert_equal_runs(&home, "whole", "killed");
    let terms = values(&home, "whole").last().expect("a log")["terms"].as_object().expect("terms").len();
    assert_eq!(terms, 11, "nine objectives, of which two have two terms");
}

/// Prepared for a run with every objective.
pub(crate) fn with_every_objective() -> Home {
    let home = Home::with_corpus(120);
    home.run_ok(&every_objective(&["tokenizer", "train"], &[]));
    home.run_ok(&every_objective(&["prepare"], &[]));
    home
}

/// A verb on that run.
pub(crate) fn every_objective<'a>(verb: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    static CONFIG: OnceLock<String> = OnceLock::new();
    let config = CONFIG.get_or_init(|| root().join("tests/fixtures/every-objective.toml").display().to_string());
    let mut args = verb.to_vec();
    args.extend(["--config", config, "--set", "tokenizer.vocab_size=400", "--set", "prepare.inputs=[\"corpus\"]"]);
    args.extend(["--set", "prepare.format=text_lines", "--set", "prepare.tokenizer=tokenizer.json"]);
    args.extend(["--set", "prepare.folder=data", "--set", "data.folder=data", "--set", "report.every_steps=1"]);
    args.extend(more);
    args
}

#[test]
fn another_identity_is_refused_with_the_keys_that_differ() {
    let home = Home::prepared(60);
    home.run_ok(&train("run.folder=run", "data.lanes=1", &["--set", "train.steps=10"]));
    let before = unlocked(&home.join("run"));
    let changed = train("run.folder=run", "data.lanes=1", &["--set", "optimizer.lr=2e-3", "--set", "train.steps=10"]);
    home.run(&changed).assert_fails(2, &["optimizer.lr", "0.001", "0.002", "run.folder", "train.init"]);
    assert_eq!(unlocked(&home.join("run")), before, "a run that is refused changes nothing, its `config.toml` neither");
}

/// Who is short of memory, or has an older run, goes on.
#[test]
fn what_changes_no_bit_may_change_between_two_parts_of_a_run() {
    let home = Home::prepared(60);
    let size = ["--set", "train.steps=12", "--set", "checkpoints.every_steps=6"];
    let run =
        |folder: &'static str, more: &[&'static str]| train(folder, "data.lanes=1", &[size.as_slice(), more].concat());
    home.run_ok(&run("run.folder=whole", &[]));
    home.run_ok(&run("run.folder=parts", &[]));
    std::fs::remove_dir_all(home.join("parts/checkpoints/step-00000012")).expect("it was saved");
    home.run_ok(&run("run.folder=parts", &["--set", "train.recompute=true"]));
    assert_equal_runs(&home, "whole", "parts");
}

#[test]
fn a_finished_run_says_so_and_ends_well() {
    let home = Home::prepared(60);
    let args = train("run.folder=run", "data.lanes=1", &["--set", "train.steps=10"]);
    home.run_ok(&args);
    let before = unlocked(&home.join("run"));
    let again = home.run_ok(&args);
    assert!(again.stderr.contains("done: 10 steps; checkpoints are in run"), "{again}");
    assert_eq!(unlocked(&home.join("run")), before, "there is nothing to write");
}
