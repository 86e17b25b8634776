//! Arguments and comparisons of runs.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

use crate::files::files;
use crate::home::Home;
use crate::root;

/// Fields of log entries that differ between two equal runs: times and machine metrics.
pub const CLOCKS: [&str; 13] = [
    "time",
    "elapsed_s",
    "tokens_per_s",
    "steps_per_s",
    "data_wait",
    "checkpoint_stall",
    "mfu",
    "eta_s",
    "phases",
    "memory",
    "host_bytes",
    "ranks",
    "seconds",
];

/// Returns the log entries about the training itself, without the fields [`CLOCKS`].
pub fn values(home: &Home, run: &str) -> Vec<Value> {
    let mut entries = home.log(run);
    entries.retain(|entry| ["start", "report", "validation", "bad_row"].iter().any(|kind| entry["kind"] == *kind));
    for entry in &mut entries {
        let object = entry.as_object_mut().expect("a log line is an object");
        object.retain(|key, _| !CLOCKS.contains(&key.as_str()));
    }
    entries
}

/// Returns the tensors of the last checkpoint: weights and optimizer state.
fn tensors(home: &Home, run: &str) -> BTreeMap<String, Vec<u8>> {
    let checkpoints = home.join(run).join("checkpoints");
    let newest = std::fs::read_to_string(checkpoints.join("latest")).expect("a checkpoint");
    let mut found = files(&checkpoints.join(newest.trim()));
    found.retain(|name, _| name.ends_with(".safetensors"));
    assert_eq!(found.len(), 2, "weights and optimizer: {:?}", found.keys());
    found
}

/// Panics unless two runs have equal log values and equal final tensors.
#[track_caller]
pub fn assert_equal_runs(home: &Home, expected: &str, run: &str) {
    let expected_values = values(home, expected);
    let values = values(home, run);
    for (value, expected) in values.iter().zip(&expected_values) {
        assert_eq!(value, expected, "log values of {run}");
    }
    assert_eq!(values.len(), expected_values.len(), "lines of the log of {run}");
    assert!(tensors(home, run) == tensors(home, expected), "weights and optimizer state");
}

/// Returns a folder that is prepared for a run with every objective.
pub fn with_every_objective() -> Home {
    let home = Home::with_corpus(120);
    home.run_ok(&every_objective(&["tokenizer", "train"], &[]));
    home.run_ok(&every_objective(&["prepare"], &[]));
    home
}

/// Returns the arguments of a verb with the configuration `tests/fixtures/every-objective.toml`.
pub fn every_objective<'a>(verb: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    static CONFIG: OnceLock<String> = OnceLock::new();
    let config = CONFIG.get_or_init(|| root().join("tests/fixtures/every-objective.toml").display().to_string());
    let mut args = verb.to_vec();
    args.extend(["--config", config, "--set", "tokenizer.vocab_size=400", "--set", "prepare.inputs=[\"corpus\"]"]);
    args.extend(["--set", "prepare.format=text_lines", "--set", "prepare.tokenizer=tokenizer.json"]);
    args.extend(["--set", "prepare.folder=data", "--set", "data.folder=data", "--set", "report.every_steps=1"]);
    args.extend(more);
    args
}
