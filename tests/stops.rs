//! Stop requests in every phase: the run stops, and the resumed run equals an uninterrupted one.
//!
//! `--slow PHASE@N` holds a phase, and stderr reports its start, so that no test depends on timing.

use std::process::Stdio;
use std::time::{Duration, Instant};

use testkit::{Home, Outcome, Running, assert_equal_runs};

/// Way to request a stop, with its exit code and reason.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Signal(libc::c_int, i32, &'static str),
    File,
}

const ASKS: [Ask; 4] = [
    Ask::Signal(libc::SIGTERM, 143, "terminate"),
    Ask::Signal(libc::SIGINT, 130, "interrupt"),
    Ask::Signal(libc::SIGUSR1, 138, "requeue"),
    Ask::File,
];

impl Ask {
    fn code(self) -> i32 {
        match self {
            Self::Signal(_, code, _) => code,
            Self::File => 143,
        }
    }

    fn why(self) -> &'static str {
        match self {
            Self::Signal(_, _, why) => why,
            Self::File => "terminate",
        }
    }
}

/// Phases with the occurrence that is held. A step has two micro-batches, so some steps are done before.
const PHASES: [(&str, u64); 5] = [("start", 1), ("data", 5), ("step", 5), ("validation", 1), ("checkpoint", 1)];

fn train<'a>(run: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train", "--set", run];
    for set in ["report.every_steps=1", "train.steps=12", "validation.every_steps=8", "checkpoints.every_steps=4"] {
        args.extend(["--set", set]);
    }
    args.extend_from_slice(more);
    args
}

fn end(home: &Home, run: &str) -> serde_json::Value {
    home.log(run).pop().expect("the log has an event")
}

/// Requests a stop in a held phase, and returns the output of the run.
fn ask(home: &Home, run: &str, by: Ask, phase: &str, number: u64) -> Outcome {
    let folder = format!("run.folder={run}");
    let slow = format!("{phase}@{number}");
    let args = train(&folder, &["--slow", &slow]);
    let stop = format!("{run}/stop");
    let mut running = home.watch(&args);
    running.wait_for_line(&format!("holding phase `{phase}`"));
    match by {
        Ask::Signal(signal, ..) => running.signal(signal),
        Ask::File => home.write(&stop, ""),
    }
    running.end()
}

#[test]
fn every_stop_request_works_in_every_phase() {
    let home = Home::prepared(60);
    home.run_ok(&train("run.folder=whole", &[]));
    for (phase, number) in PHASES {
        for by in ASKS {
            let run = format!("{phase}-{}-{}", by.why(), by.code() + i32::from(matches!(by, Ask::File)));
            let outcome = ask(&home, &run, by, phase, number);
            assert_eq!(outcome.code, Some(by.code()), "{by:?} in `{phase}`: {outcome}");
            assert!(outcome.stderr.contains(&format!("during={phase}")), "{by:?} in `{phase}`: {outcome}");
            let log = home.join(&run).join("log");
            if phase == "start" {
                assert!(!log.exists() && outcome.stderr.contains("there is nothing to save"), "{by:?}: {outcome}");
            } else {
                let stop = end(&home, &run);
                let saved = stop["saved"] == true && stop["kept"] == stop["step"];
                assert!(stop["kind"] == "stop" && stop["why"] == by.why() && saved, "{by:?} in `{phase}`: {stop}");
            }
            assert!(!home.join(&run).join("stop").exists(), "a handled stop file is removed");
            home.run_ok(&train(&format!("run.folder={run}"), &[]));
            assert_equal_runs(&home, "whole", &run);
        }
    }
}

/// Starts a run whose data does not exist yet.
fn without_data(home: &Home, run: &str) -> Running {
    let folder = format!("run.folder={run}");
    let args = train(&folder, &["--set", "data.order=streamed", "--set", "data.folder=later"]);
    home.watch(&args)
}

#[test]
fn stop_file_works_while_a_run_waits_for_its_data() {
    let home = Home::with_corpus(4);
    let mut running = without_data(&home, "asked");
    running.wait_for_line("waiting for the first data of the run");
    home.write("asked/stop", "");
    let outcome = running.end();
    assert_eq!(outcome.code, Some(143), "{outcome}");
    assert!(!home.join("asked/stop").exists() && outcome.stderr.contains("no such folder yet"), "{outcome}");
    // A folder named `stop` is no request, and a warning says so. A signal also consumes a pending stop file.
    std::fs::create_dir_all(home.join("told/stop")).expect("made");
    let mut running = without_data(&home, "told");
    running.wait_for_line("it is a folder");
    std::fs::remove_dir(home.join("told/stop")).expect("removed");
    running.freeze();
    home.write("told/stop", "");
    running.signal(libc::SIGINT);
    running.wake();
    let outcome = running.end();
    assert!([Some(130), Some(143)].contains(&outcome.code), "{outcome}");
    assert!(!home.join("told/stop").exists(), "{outcome}");
    assert_eq!(outcome.stderr.matches("it is a folder").count(), 1, "{outcome}");
    // No process prepares the data.
    let outcome = without_data(&home, "deserted").end();
    outcome.assert_fails(1, &["no process prepares the data", "later"]);
}

#[test]
fn shutdown_timeout_ends_a_run_at_the_last_checkpoint() {
    let home = Home::prepared(60);
    home.run_ok(&train("run.folder=whole", &[]));
    let slow = ["--slow", "step=60000", "--set", "run.shutdown_timeout_seconds=1"];
    let mut running = home.watch(&train("run.folder=run", &["--slow", "step=100"]));
    running.wait_for_step(7);
    running.kill();
    // The run continues from step 4, and its first step takes a minute.
    let mut running = home.watch(&train("run.folder=run", &slow));
    let began = Instant::now();
    running.wait_for_handler(libc::SIGUSR2);
    running.wait_for_phase("step");
    running.signal(libc::SIGTERM);
    let outcome = running.end();
    assert_eq!(outcome.code, Some(143), "nothing is lost: the run is at its checkpoint\n{outcome}");
    assert!(outcome.stderr.contains("`run.shutdown_timeout_seconds` have elapsed"), "{outcome}");
    assert!(began.elapsed() < Duration::from_secs(50), "it did not wait for its step");
    home.run_ok(&train("run.folder=run", &[]));
    assert_equal_runs(&home, "whole", "run");
}

/// `timeout -s INT` sends two signals: one to the process and one to its group.
#[test]
fn second_ctrl_c_within_two_seconds_is_the_same_request() {
    let home = Home::prepared(60);
    let mut running = home.watch(&train("run.folder=run", &["--slow", "step@5"]));
    running.wait_for_line("holding phase `step`");
    running.signal(libc::SIGINT);
    running.wait_for_line("saving (press ctrl-c again to quit without saving)");
    running.signal(libc::SIGINT);
    let outcome = running.end();
    assert_eq!(outcome.code, Some(130), "{outcome}");
    assert!(!outcome.stderr.contains("NOT SAVED") && end(&home, "run")["saved"] == true, "{outcome}");
}

#[test]
fn second_ctrl_c_exits_without_saving_and_names_the_lost_steps() {
    let home = Home::prepared(60);
    home.run_ok(&train("run.folder=whole", &[]));
    // The first checkpoint is that of the stop, and takes a minute.
    let slow = ["--slow", "checkpoint=60000", "--set", "checkpoints.every_steps=100"];
    let mut running = home.watch(&train("run.folder=run", &slow));
    running.wait_for_step(3);
    running.signal(libc::SIGINT);
    running.wait_for_line("saving (press ctrl-c again to quit without saving)");
    std::thread::sleep(Duration::from_millis(2100));
    running.signal(libc::SIGINT);
    let outcome = running.end();
    assert_eq!(outcome.code, Some(46), "{outcome}");
    assert!(outcome.stderr.contains("NOT SAVED: steps 1 to "), "{outcome}");
    assert!(!home.join("run/checkpoints").exists(), "{outcome}");
    home.run_ok(&train("run.folder=run", &[]));
    assert_equal_runs(&home, "whole", "run");
}

/// Starts a run without a controlling terminal.
fn service(home: &Home, args: &[&str]) -> Running {
    let plain = home.command(args);
    let mut command = std::process::Command::new("setsid");
    command.arg("-w").current_dir(home.path()).env("NO_COLOR", "1").env_remove("RUST_LOG");
    command.arg(plain.get_program()).args(plain.get_args());
    Running::new(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("setsid"))
}

#[test]
fn service_reloads_its_log_level_and_continues() {
    let home = Home::prepared(60);
    let mut running = service(&home, &train("run.folder=run", &["--slow", "step=300"]));
    running.wait_for_step(2);
    running.wait_for_phase("step");
    running.wait_for_line("checkpoint: ");
    home.write("run/log-level", "debug\n");
    running.signal(libc::SIGHUP);
    running.wait_for_line("the log level was read again");
    home.write("run/log-level", "no=such=level");
    running.signal(libc::SIGHUP);
    running.wait_for_line("stays as it is");
    std::fs::remove_file(home.join("run/log-level")).expect("there");
    running.signal(libc::SIGHUP);
    running.wait_for_line("the log level was read again");
    let outcome = running.end();
    assert_eq!(outcome.code, Some(0), "there was no stop request\n{outcome}");
    let words = ["the log level was read again level=debug", "stays as it is", "level=pipeline=info,trainer=info"];
    for word in words.iter().chain(&["trainer: step for", "batch-0: ", "items; busy", "queue ", "checkpoint: "]) {
        assert!(outcome.stderr.contains(word), "`{word}`\n{outcome}");
    }
}

#[test]
fn stalled_worker_is_named_and_not_killed() {
    let home = Home::prepared(60);
    let slow = ["--slow", "validation=2600", "--set", "run.stall_timeout_seconds=1", "--set", "validation.rows=8"];
    let outcome = home.run_ok(&train("run.folder=run", &slow));
    let warnings: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains("no progress")).collect();
    assert!(warnings.iter().any(|warning| warning.contains("phase `validation`")), "{outcome}");
    let calm = home.run_ok(&train("run.folder=calm", &[]));
    assert!(!calm.stderr.contains("no progress"), "{calm}");
    // Progress between slow phases resets the warnings.
    assert!(warnings.len() <= 6, "{warnings:?}");
}
