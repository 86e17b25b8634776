//! Runs that start while their corpus is prepared. They produce the same weights for every writer of the folder, at
//! any speed, and after kills.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};

use serde_json::Value;
use testkit::{CLOCKS, Home, Outcome, Running, corpus, files, send};

use crate::dataset_versions::version_spans;

/// The corpus has more than twenty parts of one row group each. A window has three or more, and 60 steps are about
/// two epochs.
const PARTS: [&str; 8] = [
    "--set",
    "prepare.part_bytes=4000",
    "--set",
    "prepare.valid_parts=2",
    "--set",
    "data.order=streamed",
    "--set",
    "data.shuffle_window_groups=3",
];

fn home() -> Home {
    let home = Home::with_corpus(200);
    home.run_ok(&["tokenizer", "train"]);
    home
}

/// Arguments of a run over the folder `data`, with additional arguments.
fn train<'a>(run: &'a str, data: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train"];
    args.extend_from_slice(more);
    args.extend(["--set", run, "--set", data, "--set", "report.every_steps=1", "--set", "data.workers=2"]);
    args.extend(PARTS);
    args
}

fn prepare<'a>(folder: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["prepare", "--set", folder, "--set", "prepare.workers=1"];
    args.extend_from_slice(more);
    args.extend(PARTS);
    args
}

/// Returns every file of the last checkpoint with its state, which contains no times or places.
fn checkpoint(home: &Home, run: &str) -> BTreeMap<String, Vec<u8>> {
    let found = files(&home.join(run).join("checkpoints/step-00000060"));
    assert!(found.len() >= 3 && found.contains_key("state.json"), "{:?}", found.keys());
    found
}

/// Returns the reports and validations without clock values.
fn events(home: &Home, run: &str) -> Vec<Value> {
    let mut entries = home.log(run);
    entries.retain(|entry| ["start", "report", "validation"].iter().any(|kind| entry["kind"] == *kind));
    for entry in &mut entries {
        entry.as_object_mut().expect("an object").retain(|key, _| !CLOCKS.contains(&key.as_str()));
    }
    entries
}

#[track_caller]
fn assert_like(home: &Home, whole: &str, run: &str) {
    assert!(checkpoint(home, run) == checkpoint(home, whole), "{run}: another checkpoint than {whole}");
    assert_eq!(events(home, run), events(home, whole), "{run}");
}

fn commits(home: &Home, folder: &str) -> usize {
    let entries = std::fs::read_dir(home.join(folder).join("parts")).into_iter().flatten().flatten();
    entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).count()
}

/// Waits for a number of segments. Fails if the child ends before.
fn wait_for(home: &Home, folder: &str, count: usize, child: &mut Child) {
    while commits(home, folder) < count {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before {count} segments were there");
        std::thread::yield_now();
    }
}

/// Home with the finished folder and the reference run over it.
fn finished() -> Home {
    let home = home();
    home.run_ok(&prepare("prepare.folder=data", &[]));
    assert!(commits(&home, "data") >= 20, "{} parts", commits(&home, "data"));
    home.run_ok(&train("run.folder=whole", "data.folder=data", &[]));
    home
}

#[test]
fn one_process_equals_a_run_over_a_finished_folder() {
    let home = finished();
    let args = train("run.folder=one", "data.folder=one-data", &["--prepare", "--set", "prepare.folder=one-data"]);
    let outcome = home.run_ok(&args);
    assert_like(&home, "whole", "one");
    assert!(outcome.stderr.contains("prepar"), "{outcome}");
    // A second run has nothing to do.
    home.run_ok(&args);
    assert_like(&home, "whole", "one");
}

#[test]
fn slowly_filled_folder_gives_the_same_run() {
    let home = finished();
    let slow = prepare("prepare.folder=slow", &["--slow", "writer=150"]);
    let mut child = home.command(&slow).stderr(Stdio::null()).spawn().expect("it starts");
    wait_for(&home, "slow", 1, &mut child);
    let outcome = home.run_ok(&train("run.folder=followed", "data.folder=slow", &[]));
    assert!(child.wait().expect("it ends").success());
    assert_like(&home, "whole", "followed");
    let starved = home.log("followed").iter().filter(|entry| entry["kind"] == "starved").count();
    assert!(starved >= 3 && outcome.stderr.contains("starved by prepare"), "{starved} times\n{outcome}");
}

#[test]
fn missing_folder_is_waited_for() {
    let home = home();
    let early = home.spawn(&train("run.folder=run", "data.folder=data", &["--set", "train.steps=4"]));
    while !home.join("run").exists() {
        std::thread::yield_now();
    }
    // The folder as it was half-way. Shuffled data needs all of it.
    let mut child = home.spawn(&prepare("prepare.folder=data", &["--slow", "writer=100"]));
    wait_for(&home, "data", 3, &mut child);
    let shuffled = train("run.folder=shuffled", "data.folder=data", &["--set", "train.steps=4"]);
    let shuffled = [shuffled, vec!["--set", "data.order=shuffled"]].concat();
    home.run(&shuffled).assert_fails(2, &["prepared to ", " parts; run `cloze prepare`"]);
    let outcome = Outcome::new(early.wait_with_output().expect("it ends"));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert!(outcome.stderr.contains("no process prepares it yet"), "{outcome}");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn kills_of_either_side_change_nothing() {
    let home = finished();
    let slow = prepare("prepare.folder=killed", &["--slow", "writer=100"]);
    let run = train("run.folder=killed-run", "data.folder=killed", &[]);
    let mut child = home.spawn(&slow);
    wait_for(&home, "killed", 1, &mut child);
    // Kills the run, then the preparation, then both.
    let mut running = home.watch(&run);
    running.wait_for_step(3);
    running.kill();
    let mut running = home.watch(&run);
    running.wait_for_step(6);
    child.kill().expect("SIGKILL");
    child.wait().expect("it ended");
    let mut child = home.spawn(&slow);
    running.wait_for_step(12);
    assert!(commits(&home, "killed") < commits(&home, "data"), "the folder must be incomplete for this test");
    running.kill();
    child.kill().expect("SIGKILL");
    child.wait().expect("it ended");
    // If no process continues the preparation, the run waits no longer than the lock timeout.
    let alone = home.run(&run);
    alone.assert_fails(1, &["parts of dataset version 0 are there", "cloze prepare"]);
    home.run_ok(&prepare("prepare.folder=killed", &[]));
    home.run_ok(&run);
    assert_like(&home, "whole", "killed-run");
}

/// Stops a single-process run half-way with a signal, and continues it with the same command.
fn stopped(home: &Home, name: &str, signal: libc::c_int, code: i32, step: u64) {
    let folder = format!("run.folder={name}");
    let data = format!("data.folder={name}-data");
    let prepared = format!("prepare.folder={name}-data");
    let args = train(&folder, &data, &["--prepare", "--slow", "step=30", "--set", &prepared]);
    let child = home.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut running = Running::new(child.expect("it starts"));
    running.wait_for_step(step);
    running.signal(signal);
    let outcome = running.end();
    assert_eq!(outcome.code, Some(code), "{outcome}");
    home.run_ok(&train(&folder, &data, &["--prepare", "--set", &prepared]));
    assert_like(home, "whole", name);
}

#[test]
fn stop_reaches_trainer_and_preparation_and_both_resume() {
    let home = finished();
    stopped(&home, "terminated", libc::SIGTERM, 143, 2);
    stopped(&home, "requeued", libc::SIGUSR1, 138, 5);
}

#[test]
fn a_stop_ends_a_wait_for_the_preparation_at_once() {
    let home = home();
    let mut child = home.spawn(&prepare("prepare.folder=data", &[]));
    wait_for(&home, "data", 5, &mut child);
    // The preparation and its lock are suspended, but only briefly.
    send(&child, libc::SIGSTOP);
    let mut running = home.watch(&train("run.folder=run", "data.folder=data", &[]));
    running.wait_for_step(1);
    running.signal(libc::SIGTERM);
    let outcome = running.end();
    assert_eq!(outcome.code, Some(143), "{outcome}");
    send(&child, libc::SIGCONT);
    child.kill().expect("SIGKILL, or gone");
    child.wait().expect("it ended");
}

#[test]
fn failed_preparation_ends_the_run_and_keeps_its_progress() {
    let home = home();
    // The last part that is read is invalid, and therefore the corpus.
    let dirty: String = (0..3000).map(|_| "\u{fffd}\n").collect();
    home.write("corpus/9.jsonl", &dirty);
    for part in 0..4 {
        let text = std::fs::read_to_string(home.join(&format!("corpus/{part}.txt"))).expect("there");
        let line = |text: &str| format!("{{\"text\": {}}}\n", serde_json::to_string(text).expect("JSON"));
        home.write(&format!("corpus/{part}.jsonl"), &text.lines().map(line).collect::<String>());
    }
    let args = train(
        "run.folder=run",
        "data.folder=data",
        &["--prepare", "--set", "prepare.folder=data", "--set", "prepare.format=jsonl", "--set", "prepare.workers=1"],
    );
    let outcome = home.run(&args);
    outcome.assert_fails(42, &["the preparation failed"]);
}

#[test]
fn shuffled_runs_are_prepared_first_by_the_same_command() {
    let home = home();
    let order = ["--set", "data.order=shuffled"];
    let args = |run, data, more: &[&'static str]| [train(run, data, more), order.to_vec()].concat();
    home.run_ok(&args("run.folder=one", "data.folder=data", &["--prepare"]));
    home.run_ok(&args("run.folder=whole", "data.folder=data", &[]));
    assert_like(&home, "whole", "one");
}

#[test]
fn added_documents_are_used_from_the_next_epoch() {
    let home = home();
    let mut watching = home.command(&prepare("prepare.folder=data", &["--watch=0.1"]));
    let mut child = watching.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    wait_for(&home, "data", 1, &mut child);
    let newest = ["--set", "data.version=latest", "--slow", "step=60"];
    let mut running = home.watch(&train("run.folder=run", "data.folder=data", &newest));
    running.wait_for_step(2);
    home.write("corpus/more.txt", &(corpus::documents(260)[200..].join("\n") + "\n"));
    let outcome = running.end();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert_eq!(version_spans(&home, "run"), [(0, 0), (1, 1)], "{outcome}");
    send(&child, libc::SIGTERM);
    let ended = Outcome::new(child.wait_with_output().expect("it ends"));
    assert_eq!(ended.code, Some(143), "{ended}");
    let reported =
        (ended.stdout.matches(" parts made").count(), ended.stderr.contains("dataset version 1 drops 0 parts"));
    assert_eq!(reported, (2, true), "each dataset version is reported\n{ended}");
    // A shorter folder does not end a started run: a late run trains on the same data.
    home.run_ok(&train("run.folder=late", "data.folder=data", &["--set", "data.version=latest"]));
    assert_eq!(version_spans(&home, "late"), [(0, 1)]);
}

/// The part list contains names and lengths. A change of text is detected from the data that was read.
#[test]
fn recreated_folder_with_other_text_is_refused() {
    let home = home();
    home.run_ok(&prepare("prepare.folder=data", &[]));
    let args = train("run.folder=run", "data.folder=data", &["--set", "checkpoints.every_steps=5"]);
    let mut running = home.watch(&args);
    running.wait_for_step(10);
    running.kill();
    std::fs::remove_dir_all(home.join("data")).expect("there");
    for part in 0..4 {
        let name = format!("corpus/{part}.txt");
        let text = std::fs::read_to_string(home.join(&name)).expect("there");
        home.write(&name, &text.replace("the", "thy"));
    }
    home.run_ok(&prepare("prepare.folder=data", &[]));
    home.run(&args).assert_fails(2, &["dataset version 0 with other data than is here now"]);
    let shuffled = [args, vec!["--set", "data.order=shuffled"]].concat();
    home.run(&shuffled).assert_fails(2, &["`data.order = \"streamed\"`"]);
}

#[test]
fn errors_are_reported_before_the_preparation() {
    let home = home();
    let args = train("run.folder=run", "data.folder=data", &["--prepare", "--set", "loss.nothing=1.0"]);
    home.run(&args).assert_fails(2, &["nothing"]);
    assert!(!home.join("data").exists() && !home.join("run").exists());
    let counts = train("run.folder=run", "data.folder=data", &["--set", "views.masked.random_words=unigram"]);
    home.run_ok(&prepare("prepare.folder=data", &[]));
    home.run(&counts).assert_fails(2, &["counts of the whole corpus", "`random_words`", "shuffled"]);
}
