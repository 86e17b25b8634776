//! Profiles of training: alone, at given steps, and while a run continues.

use serde_json::Value;
use testkit::{Home, Outcome, assert_equal_runs, every_objective, send, wait_for_thread, with_every_objective};

/// Configuration with every part of a step.
const PARTS: [&str; 9] =
    ["wait", "upload", "embeddings", "attention", "feed_forward", "norm", "sample", "backward", "optimizer"];

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Asserts that all parts of a step are present and add up, on the host and in the drawn step.
fn assert_adds_up(training: &Value) {
    let phases = training["phases"].as_array().expect("a list");
    let named = |name: &str| phases.iter().find(|phase| phase["what"] == name);
    for part in PARTS {
        assert!(named(part).is_some_and(|phase| number(&phase["host_ms"]) > 0.0), "{part}: {training:#}");
    }
    assert!(phases.iter().any(|phase| phase["what"].as_str().is_some_and(|what| what.starts_with("objective "))));
    let sum: f64 = phases.iter().map(|phase| number(&phase["host_ms"])).sum();
    let steps: Vec<f64> = training["step_ms_each"].as_array().expect("a list").iter().map(number).collect();
    assert_eq!(steps.len() as u64, training["steps"].as_u64().expect("a count"));
    let mean = steps.iter().sum::<f64>() / steps.len() as f64;
    assert!((sum - mean).abs() < 0.01 * mean + 0.05, "parts {sum}, steps {mean}");
    let slices = training["waterfall"].as_array().expect("a step");
    let mut at = 0.0;
    for slice in slices {
        let from = number(&slice["from_ms"]);
        let to = number(&slice["to_ms"]);
        assert!((from - at).abs() < 1e-6 && to >= from, "no gap and no overlap: {slice}");
        at = to;
    }
    assert!(!slices.is_empty() && steps.iter().any(|step| (step - at).abs() < 0.01 * step + 0.05), "{at}: {steps:?}");
}

#[test]
fn profile_shows_the_parts_of_a_step() {
    let home = with_every_objective();
    let of = |more: &[&'static str]| {
        let half = ["profile", "train", "--seconds", "8", "--json"];
        every_objective(&half, &[&["--set", "run.folder=none"], more].concat()).into_iter().map(str::to_owned).collect()
    };
    let run = |args: Vec<String>| home.run_ok(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let profile = parsed(&run(of(&[])).stdout);
    assert_eq!((&profile["target"], &profile["training"]["device"]), (&"train".into(), &"Cpu".into()));
    assert_adds_up(&profile["training"]);
    assert!(profile["training"]["phases"].as_array().expect("a list").iter().all(|phase| phase["device_ms"].is_null()));
    let owners: Vec<&str> = profile["training"]["memory"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| it["owner"].as_str())
        .collect();
    assert_eq!(owners, ["weights", "gradients", "moments", "the rest of the process"]);
    assert!(number(&profile["tokens_per_s"]["mean"]) > 0.0 && !home.join("none").exists(), "nothing is kept");
    // With fewer steps than the warm-up nothing can be measured, and an error says so.
    let short: Vec<String> = of(&["--set", "train.steps=2"]);
    let refused = home.run(&short.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(refused.code == Some(2) && refused.stderr.contains("nothing to measure"), "{refused}");
}

#[test]
fn profiling_does_not_change_a_run() {
    let home = with_every_objective();
    let train = |run: &'static str, more: &[&'static str]| {
        every_objective(&["train"], &[&["--set", run, "--set", "train.steps=60"], more].concat())
    };
    home.run_ok(&train("run.folder=calm", &[]));
    let mut measured = train("run.folder=measured", &["--slow", "step=40"]);
    measured.splice(1..1, ["--profile", "45..55"]);
    let mut running = home.watch(&measured);
    // Requests to a live run are answered in order.
    running.wait_for_step(2);
    running.freeze();
    let mut asked = home.watch(&["profile", "live", "measured", "--steps", "7", "--json"]);
    asked.wait_for_line("the run continues");
    running.wake();
    let live = asked.end();
    let ended = running.end();
    assert_eq!(live.code, Some(0), "{live}");
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_equal_runs(&home, "calm", "measured");
    let live = parsed(&live.stdout);
    assert_eq!(live["training"]["steps"], 7, "{live:#}");
    assert_adds_up(&live["training"]);
    let named = std::fs::read_to_string(home.join("measured/profiles/45-55.json")).expect("it was asked for");
    assert_adds_up(&parsed(&named)["training"]);
    let text = std::fs::read_to_string(home.join("measured/profiles/45-55.txt")).expect("a text summary");
    assert!(text.contains("a step takes") && text.contains("backward"), "{text}");
    assert!(!home.join("measured/profile").exists(), "the request was handled");
    // A measurement that the end of the run cuts short is reported, and impossible ones are refused.
    let to_the_end = home.run_ok(&[train("run.folder=short", &[]).as_slice(), &["--profile", "55..90"]].concat());
    assert!(home.join("short/profiles/55-60.json").exists(), "{to_the_end}");
    let never = home.run_ok(&[train("run.folder=other", &[]).as_slice(), &["--profile", "59..90"]].concat());
    assert!(never.stderr.contains("measured steps 59 to 60"), "{never}");
    let beyond = home.run(&[train("run.folder=more", &[]).as_slice(), &["--profile", "60..90"]].concat());
    assert!(beyond.code == Some(2) && beyond.stderr.contains("the run has 60 steps"), "{beyond}");
    let over = home.run(&["profile", "live", "measured"]);
    assert!(over.code == Some(2) && over.stderr.contains("the run is not in progress"), "{over}");
}

#[test]
fn invalid_request_is_refused_and_removed() {
    let home = Home::prepared(60);
    for wrong in ["", "x..y", "7..7", "9..3"] {
        let refused = home.run(&["train", "--set", "run.folder=run", "--profile", wrong]);
        assert!(refused.code == Some(2) && refused.stderr.contains("100..120"), "{wrong}: {refused}");
    }
    let train = ["train", "--set", "run.folder=run", "--set", "train.steps=40", "--slow", "step=50"];
    let mut running = home.watch(&train);
    running.wait_for_step(1);
    running.freeze();
    home.write("run/profile", "all of them");
    running.wake();
    let ended = running.end();
    assert!(ended.code == Some(0) && ended.stderr.contains("expected steps like `100..120`"), "{ended}");
    assert!(!home.join("run/profile").exists() && !home.join("run/profiles").exists());
    for steps in ["0", "x"] {
        assert_eq!(home.run(&["profile", "live", "run", "--steps", steps]).code, Some(2));
    }
}

#[test]
fn profile_all_compares_its_parts() {
    let home = Home::prepared(200);
    let all = ["profile", "all", "--seconds", "4", "--set", "run.folder=none", "--set", "train.steps=100000"];
    let outcome = home.run_ok(&all);
    for part in ["== prepare", "== loader", "== train", "training takes", "the preparation makes"] {
        assert!(outcome.stdout.contains(part), "{part}: {outcome}");
    }
}

#[test]
fn profiled_training_stops_at_once() {
    let home = Home::prepared(40);
    let sets = ["--seconds", "600", "--set", "run.folder=none", "--set", "train.steps=100000"];
    let child = home.spawn(&[&["profile", "train"], &sets[..]].concat());
    wait_for_thread(&child, "batch-0");
    send(&child, libc::SIGTERM);
    let outcome = Outcome::new(child.wait_with_output().expect("it ends"));
    assert!(outcome.code == Some(143) && outcome.stderr.contains("there is nothing to save"), "{outcome}");
    assert!(!outcome.stderr.contains("saving") && !home.join("none").exists(), "{outcome}");
}
