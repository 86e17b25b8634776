//! A run that was stopped, by whatever means, ends as if it had not been.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Home, Outcome, files};

/// Dropout 0.1, two terms, two micro-batches a step, a validation at 20, 40 and 60, checkpoints every 10 steps, and
/// few enough rows that several epochs go by (`tiny.toml` and these overrides).
fn train<'a>(run: &'a str, lanes: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args =
        vec!["train", "--set", run, "--set", lanes, "--set", "report.every_steps=1", "--set", "train.threads=1"];
    args.extend_from_slice(more);
    args
}

/// The newest step in a run's log.
fn last_step(home: &Home, run: &str) -> u64 {
    log(home, run).iter().filter_map(|entry| entry["step"].as_u64()).max().unwrap_or(0)
}

fn log(home: &Home, run: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(home.join(run).join("log.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The log without what depends on the clock.
fn values(home: &Home, run: &str) -> Vec<Value> {
    let mut entries = log(home, run);
    for entry in &mut entries {
        let object = entry.as_object_mut().expect("a log line is an object");
        object.retain(|key, _| !matches!(key.as_str(), "tokens_per_s" | "wait" | "mfu" | "seconds"));
    }
    entries
}

/// The tensors of the last checkpoint: weights and optimizer state.
fn tensors(home: &Home, run: &str) -> BTreeMap<String, Vec<u8>> {
    let mut found = files(&home.join(run).join("checkpoints/step-00000060"));
    found.retain(|name, _| name.ends_with(".safetensors"));
    assert_eq!(found.len(), 2, "weights and optimizer: {:?}", found.keys());
    found
}

fn wait_for_step(home: &Home, run: &str, step: u64, child: &mut Child) {
    let began = Instant::now();
    while last_step(home, run) < step {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before step {step}");
        assert!(began.elapsed() < Duration::from_secs(120), "no step {step} in two minutes");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[track_caller]
fn assert_equal_runs(home: &Home, expected: &str, run: &str) {
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
        let mut child = home.spawn(&train(&folder, lanes, &[]));
        wait_for_step(&home, run, 37, &mut child);
        child.kill().expect("SIGKILL");
        child.wait().expect("it ended");
        assert!(last_step(&home, run) < 60, "the kill came too late to prove anything");
        home.run_ok(&train(&folder, lanes, &[]));
        assert_equal_runs(&home, "whole", run);
    }
}

/// The same, for the run of `fixtures/every-objective.toml`: dropout, a generator that samples, a teacher, pairs and crops.
#[test]
fn resume_is_bit_exact_for_every_objective() {
    let home = Home::with_corpus(120);
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/every-objective.toml");
    let with = |verb: &[&'static str], more: &[&'static str]| -> Vec<&'static str> {
        let mut args = verb.to_vec();
        args.extend(["--config", config, "--set", "tokenizer.vocab_size=400", "--set", "prepare.inputs=[\"corpus\"]"]);
        args.extend(["--set", "prepare.format=text_lines", "--set", "prepare.tokenizer=tokenizer.json"]);
        args.extend(["--set", "prepare.folder=data", "--set", "data.folder=data", "--set", "report.every_steps=1"]);
        args.extend(more);
        args
    };
    home.run_ok(&with(&["tokenizer", "train"], &[]));
    home.run_ok(&with(&["prepare"], &[]));
    home.run_ok(&with(&["train"], &["--set", "run.folder=whole", "--set", "data.lanes=1"]));
    let again = with(&["train"], &["--set", "run.folder=killed", "--set", "data.lanes=3"]);
    let mut child = home.spawn(&again);
    wait_for_step(&home, "killed", 37, &mut child);
    child.kill().expect("SIGKILL");
    child.wait().expect("it ended");
    assert!(last_step(&home, "killed") < 60, "the kill came too late to prove anything");
    home.run_ok(&again);
    assert_equal_runs(&home, "whole", "killed");
    let terms = values(&home, "whole").last().expect("a log")["terms"].as_object().expect("terms").len();
    assert_eq!(terms, 11, "nine objectives, of which two have two terms");
}

/// Sends SIGTERM while the run is in `phase`, sees it saved, and resumes it.
fn terminate_in(phase: &str, at_step: u64) {
    let home = Home::prepared(120);
    home.run_ok(&train("run.folder=whole", "data.lanes=2", &[]));
    let slow = format!("{phase}=400");
    let mut child = home.spawn(&train("run.folder=run", "data.lanes=2", &["--slow", &slow]));
    if at_step > 0 {
        wait_for_step(&home, "run", at_step, &mut child);
    }
    let mut stderr = child.stderr.take().expect("it is piped");
    // The phase begins right after the report of `at_step` and lasts at least 400 ms.
    std::thread::sleep(Duration::from_millis(200));
    let pid = libc::pid_t::try_from(child.id()).expect("a process id");
    // SAFETY: a plain system call on the child that this test started.
    #[expect(unsafe_code, reason = "std sends no signal but SIGKILL")]
    let sent = unsafe { libc::kill(pid, libc::SIGTERM) };
    assert_eq!(sent, 0);
    let mut said = String::new();
    stderr.read_to_string(&mut said).expect("UTF-8");
    let status = child.wait().expect("it ended");
    let outcome = Outcome { code: status.code(), stdout: String::new(), stderr: said };
    outcome.assert_fails(143, &[&format!("during={phase}")]);
    home.run_ok(&train("run.folder=run", "data.lanes=2", &[]));
    assert_equal_runs(&home, "whole", "run");
}

#[test]
fn sigterm_in_a_data_wait_saves_and_resumes() {
    terminate_in("data", 3);
}

#[test]
fn sigterm_in_a_step_saves_and_resumes() {
    terminate_in("step", 3);
}

#[test]
fn sigterm_in_a_validation_saves_and_resumes() {
    terminate_in("validation", 20);
}

#[test]
fn sigterm_in_a_checkpoint_saves_and_resumes() {
    terminate_in("checkpoint", 10);
}

#[test]
fn another_identity_is_refused_with_the_keys_that_differ() {
    let home = Home::prepared(60);
    home.run_ok(&train("run.folder=run", "data.lanes=1", &["--set", "train.steps=10"]));
    let changed = train("run.folder=run", "data.lanes=1", &["--set", "optimizer.lr=2e-3", "--set", "train.steps=10"]);
    home.run(&changed).assert_fails(2, &["optimizer.lr", "0.001", "0.002", "run.folder", "train.init"]);
}

#[test]
fn a_finished_run_says_so_and_ends_well() {
    let home = Home::prepared(60);
    let args = train("run.folder=run", "data.lanes=1", &["--set", "train.steps=10"]);
    home.run_ok(&args);
    let before = values(&home, "run");
    home.run_ok(&args);
    assert_eq!(values(&home, "run"), before);
}
