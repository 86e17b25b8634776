//! Trainings whose run folder is in an object store, against servers on the loopback interface.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use store::Store;
use testkit::servers::http::Request;
use testkit::servers::s3::{Fault, S3};
use testkit::{Home, assert_equal_runs};

use crate::object_stores::{prepared, run, run_ok, s3_variables, start};

/// Holds requests that a condition selects, from the first one on.
struct Gate {
    held: Receiver<()>,
    /// Dropping it answers them, and later ones at once.
    closed: SyncSender<()>,
}

/// Starts a server and a gate. Requests that the condition does not select are answered meanwhile.
fn gated(is_held: impl Fn(&Request) -> bool + Send + Sync + 'static) -> (S3, Gate) {
    let (hold, held) = sync_channel(1);
    let (closed, opened) = sync_channel(0);
    let opened = Mutex::new(opened);
    let server = S3::start_with(move |request| {
        if is_held(request) {
            // The first one is enough.
            let _ = hold.try_send(());
            let _ = opened.lock().expect("no panic").recv();
        }
    });
    (server, Gate { held, closed })
}

fn is_put(request: &Request, start: &str) -> bool {
    request.method == "PUT" && request.path.starts_with(&format!("/bucket/run/{start}"))
}

const REMOTE: &str = "run.folder=s3://bucket/run";

fn train<'a>(folder: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let sets = ["report.every_steps=1", "train.steps=12", "validation.every_steps=8", "checkpoints.every_steps=4"];
    let sets = sets.into_iter().flat_map(|set| ["--set", set]);
    ["train", "--set", folder].into_iter().chain(sets).chain(more.iter().copied()).collect()
}

/// Returns a prepared folder with the run `whole`, which the runs on a store are compared with.
fn with_whole_run() -> Home {
    let home = prepared();
    home.run_ok(&train("run.folder=whole", &[]));
    home
}

/// Names of the objects of the run that begin with `start`.
fn objects(server: &S3, start: &str) -> Vec<String> {
    let state = server.state();
    let names = state.objects.keys().filter_map(|key| key.strip_prefix("run/"));
    names.filter(|name| name.starts_with(start)).map(str::to_owned).collect()
}

/// Asserts that the run on a server equals the run `whole`.
#[track_caller]
fn assert_equals_whole(home: &Home, server: &S3) {
    let copy = Store::folder(home.join("copy")).expect("made");
    for (key, bytes) in &server.state().objects {
        copy.put(key.strip_prefix("run/").expect("one run"), bytes).expect("put");
    }
    assert_equal_runs(home, "whole", "copy");
}

/// Steps continue while a checkpoint is uploaded; the checkpoint does not count before it is complete; a stop object
/// stops the run; the resumed run equals one that was not stopped.
#[test]
fn a_run_on_a_store_uploads_checkpoints_in_the_background_and_obeys_a_stop_object() {
    let home = with_whole_run();
    let (server, gate) = gated(|request| is_put(request, "checkpoints/step-00000004/main.safetensors"));
    let variables = s3_variables(&server);
    let mut running = start(&home, &train(REMOTE, &["--slow", "checkpoint@2"]), &variables);
    gate.held.recv().expect("the upload begins");
    running.wait_for_step(7);
    assert!(objects(&server, "checkpoints/latest").is_empty(), "it is not complete");
    assert!(objects(&server, "checkpoints/step-00000004/state.json").is_empty(), "it is not complete");
    drop(gate.closed);
    running.wait_for_line("holding phase `checkpoint`");
    server.state().objects.insert("run/stop".to_owned(), Vec::new());
    let outcome = running.end();
    assert_eq!(outcome.code, Some(143), "{outcome}");
    assert!(objects(&server, "stop").is_empty(), "a stop object that was obeyed is removed\n{outcome}");

    // Of each checkpoint the state is the last object, and `latest` follows it.
    let puts: Vec<String> = {
        let state = server.state();
        let puts = state.requests.iter().filter_map(|request| request.strip_prefix("PUT /bucket/run/checkpoints/"));
        puts.map(|name| name.trim_end_matches('?').to_owned()).collect()
    };
    let at = |name: &str| puts.iter().position(|put| put == name).unwrap_or_else(|| panic!("{name}: {puts:#?}"));
    for step in ["step-00000004", "step-00000008"] {
        let state = at(&format!("{step}/state.json"));
        assert!(puts[state + 1..].iter().all(|put| !put.starts_with(&format!("{step}/"))), "{puts:#?}");
        assert!(
            at(&format!("{step}/main.safetensors")) < state && at(&format!("{step}/optimizer.safetensors")) < state
        );
        assert!(puts[state..].contains(&"latest".to_owned()), "{puts:#?}");
    }
    assert!(at("latest") > at("step-00000004/state.json"), "{puts:#?}");

    run_ok(&home, &train(REMOTE, &[]), &variables);
    assert_equals_whole(&home, &server);
}

/// No step, report or save waits for a request. Only a second checkpoint waits for the first one.
#[test]
fn steps_continue_while_a_store_answers_nothing() {
    let home = with_whole_run();
    let is_reached = AtomicBool::new(false);
    let (server, gate) = gated(move |request| {
        let is_log = is_put(request, "log/");
        is_reached.fetch_or(is_log, Ordering::SeqCst) || is_log
    });
    let variables = s3_variables(&server);
    let mut running = start(&home, &train(REMOTE, &[]), &variables);
    gate.held.recv().expect("the first line is put");
    running.wait_for_step(7);
    for start in ["log/", "checkpoints/", "exposure/"] {
        assert_eq!(objects(&server, start), Vec::<String>::new(), "it is held");
    }
    drop(gate.closed);
    let outcome = running.end();
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert_equals_whole(&home, &server);
}

/// The lines before a checkpoint are durable before its first object is written. A process that is killed in between
/// leaves lines that the next process writes again.
#[test]
fn a_kill_between_the_log_and_a_checkpoint_repeats_the_lines() {
    let home = with_whole_run();
    let (server, gate) = gated(|request| is_put(request, "checkpoints/step-00000008/main.safetensors"));
    let variables = s3_variables(&server);
    let running = start(&home, &train(REMOTE, &[]), &variables);
    gate.held.recv().expect("the upload begins");
    running.kill();
    drop(gate.closed);
    let log = server.state().objects["run/log/00000000.jsonl"].clone();
    let log = String::from_utf8(log).expect("text");
    let entries = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("whole"));
    let reports: Vec<u64> =
        entries.filter(|entry| entry["kind"] == "report").filter_map(|entry| entry["step"].as_u64()).collect();
    assert_eq!(reports, (1..=8).collect::<Vec<_>>());
    assert_eq!(server.state().objects["run/checkpoints/latest"], b"step-00000004\n");

    run_ok(&home, &train(REMOTE, &[]), &variables);
    assert_equals_whole(&home, &server);
}

#[test]
fn a_checkpoint_whose_log_cannot_be_written_does_not_count() {
    let home = with_whole_run();
    let server = S3::start();
    let mut puts = 0;
    server.set_faults(move |request| {
        puts += u64::from(is_put(request, "log/"));
        (puts > 1 && is_put(request, "log/")).then_some(Fault::Status(403))
    });
    let variables = s3_variables(&server);
    let outcome = run(&home, &train(REMOTE, &[]), &variables);
    assert_eq!(outcome.code, Some(1), "{outcome}");
    assert!(outcome.stderr.contains("s3://bucket/run/log/00000000.jsonl"), "{outcome}");
    assert_eq!(objects(&server, "checkpoints/"), Vec::<String>::new(), "{outcome}");

    server.set_faults(|_| None);
    run_ok(&home, &train(REMOTE, &[]), &variables);
    assert_equals_whole(&home, &server);
}
